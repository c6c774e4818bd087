"""From an accepted document to its result: intake, workers, stages, upkeep."""
