"""The rules of the house, each as a function over a path, tried on a planted fault."""
