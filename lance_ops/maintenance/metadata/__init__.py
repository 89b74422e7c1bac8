"""Operations on metadata alone: restore, config, columns dropped, tags, clones."""
