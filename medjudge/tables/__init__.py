"""Reads tables (CSV, TSV, XLSX) within stated limits."""
