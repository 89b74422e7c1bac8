"""Work submitted by a scheduler to a cluster: request, program, and answer.

The scheduler's side needs no Spark, and the program's side no scheduler; both use request and answer.
"""
