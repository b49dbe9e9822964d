"""Feature columns: how raw features become what a model reads.

`column` says what a column is, `features` holds the features of one call and what was made of them; `numeric`,
`categorical`, `crossed`, `indicator` and `embedding` are the columns, `input_layer`, `linear_model` and `specs` what
reads lists of them.
"""
