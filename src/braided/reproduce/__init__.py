"""`braided reproduce`: the paper's tables and figures, ours beside theirs."""
