"""SQL of maintenance: the verbs of Lance's connector for the JVM, over the operations of this package."""
