"""Message brokers: addresses, messages in the order of their place, and messages out; what is in them is for others."""
