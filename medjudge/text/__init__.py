"""The grammar of an answer: sentences, bullets, headings, formatting, and controlled rewording."""
