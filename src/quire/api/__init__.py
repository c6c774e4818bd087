"""The HTTP service: routes by what they serve, and what all of them share."""
