package lanceops;

import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * A dataset that a query makes or replaces: the commit of the write is the only one, so that a query which fails
 * leaves the old version, or nothing.
 */
final class StagedDataset implements StagedTable, SupportsWrite {
    private final LanceTable table;
    private final LanceCatalog catalog;
    private final Identifier name;
    private final StructType columns;
    private final Map given;
    private final boolean replaces;
    private boolean written = false;

    StagedDataset(
            LanceTable table, LanceCatalog catalog, Identifier name, StructType columns, Map given,
            boolean replaces) {
        this.table = table;
        this.catalog = catalog;
        this.name = name;
        this.columns = columns;
        this.given = given;
        this.replaces = replaces;
    }

    public String name() {
        return table.name();
    }

    public StructType schema() {
        return columns;
    }

    public Map properties() {
        return table.properties();
    }

    public Set capabilities() {
        return table.capabilities();
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        written = true;
        WriteBuilder builder = table.newWriteBuilder(info);
        return replaces ? ((SupportsTruncate) builder).truncate() : builder;
    }

    public void commitStagedChanges() {
        if (!written) {
            catalog.make(name, columns, given, replaces ? "overwrite" : "create");
        }
    }

    public void abortStagedChanges() {
    }
}
