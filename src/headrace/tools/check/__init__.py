"""`headrace check`: which names of TensorFlow a program uses that headrace does not have, without running it.

| file | holds |
|---|---|
| `sources` | files, folders and notebooks as Python source, with where each line comes from |
| `python2` | source of Python 2 made readable for Python 3's parser, line by line |
| `names` | from a syntax tree to the names of TensorFlow that it uses |
| `guards` | what is known of conditions before the program runs: hasattr, the version |
| `lookup` | whether headrace has a name, and what to say if not |
| `command` | the command |
"""
