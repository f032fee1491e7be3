"""Plan a reach: audiences, filters, and how exact they will be."""
