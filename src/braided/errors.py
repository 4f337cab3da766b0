"""The one exception that means: the input is wrong, and here is how to fix it."""


class BraidedError(ValueError):
    """Bad input or a bad file, told in one sentence that names the thing, the value and the remedy.

    The command line prints the sentence alone and exits with code 2.
    """
