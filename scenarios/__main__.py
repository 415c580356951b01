"""`python -m scenarios` is the `specdec` command."""

from scenarios.cli.main import main

if __name__ == "__main__":
    main()
