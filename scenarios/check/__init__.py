"""`specdec check`: rules over a serving configuration, and the seven don'ts on a scenario."""
