"""Maintenance SQL: the statements of Lance's connector for the JVM, run by the operations of lance_ops."""
