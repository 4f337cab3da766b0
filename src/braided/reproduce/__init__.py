"""`braided reproduce`: the paper's tables and figures and a review's, ours beside theirs."""
