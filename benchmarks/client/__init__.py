"""The client for web pages, beside one of the Distributed Aggregation Protocol."""
