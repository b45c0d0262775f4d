"""The commands, files and server choices of the continuous integration, tested here."""
