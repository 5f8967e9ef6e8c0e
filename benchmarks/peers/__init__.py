"""The peers, each driven as its documentation says, with its own schema."""
