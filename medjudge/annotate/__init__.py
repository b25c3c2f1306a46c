"""The physicians' side: their scores in, forms out."""
