package lanceops;

import org.apache.spark.sql.connector.catalog.Identifier;

/** Janino cannot call the static factory of the interface. */
final class Name implements Identifier {
    private final String[] namespace;
    private final String name;

    Name(String[] namespace, String name) {
        this.namespace = namespace;
        this.name = name;
    }

    public String[] namespace() {
        return namespace;
    }

    public String name() {
        return name;
    }

    public String toString() {
        return String.join(".", namespace) + "." + name;
    }
}
