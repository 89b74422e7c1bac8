"""Work that a scheduler submits to a cluster: what is asked for, the program that does it, what it answers.

The scheduler's side needs no Spark, and the program's side no scheduler; both know request and answer.
"""
