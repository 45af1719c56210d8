"""Tables of other programs, whose volumes must be decoded: what ConvertTable is made of."""
