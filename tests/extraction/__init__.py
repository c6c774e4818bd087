"""Tests of the extraction package: schemas, numbers and dates, quotations, lists."""
