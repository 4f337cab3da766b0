"""The data sets that have a name: the paper's, with its protocol, and those of River."""
