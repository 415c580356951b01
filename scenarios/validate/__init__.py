"""Everything that is predicted against everything that others measured: `specdec validate`."""
