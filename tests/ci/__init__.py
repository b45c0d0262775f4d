"""What the continuous integration runs, tried here: its server choices, its commands, its files."""
