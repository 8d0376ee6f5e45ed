"""Pictures that move: robots, runs and whole systems as web pages of one file each."""
