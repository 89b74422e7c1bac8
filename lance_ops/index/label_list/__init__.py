"""LABEL_LIST: each item of the lists of a column with the rows of these lists, and the rows without a list.

The file is that of a BITMAP with items for keys; nulls among the items have a key, too. Rows whose list is
null are a buffer of the file, which its metadata name; files of index version 0 do not have it.
"""
