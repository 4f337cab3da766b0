"""The paper's tables and figures, and two of others: made here, beside what is published. `python -m reproduction`."""
