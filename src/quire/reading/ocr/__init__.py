"""Local OCR."""
