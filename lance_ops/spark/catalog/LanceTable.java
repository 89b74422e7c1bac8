package lanceops;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A dataset, at one version for reading; the source in Python that told its schema serves it. */
final class LanceTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
    private final String name;
    private final Map properties;
    private final PythonDataSourceV2 python;
    private final Facts facts;
    private final StructType stored;
    private final StructType schema;
    private final Map options;

    /**
     * @param facts what the source tells of the version; null for a table that is only written, or whose schema
     *     the user gives
     * @param stored the columns as the source has them
     * @param schema the same with the lengths of CHAR and VARCHAR
     */
    LanceTable(
            String name, Map properties, PythonDataSourceV2 python, Facts facts, StructType stored,
            StructType schema, Map options) {
        this.name = name;
        this.properties = properties;
        this.python = python;
        this.facts = facts;
        this.stored = stored;
        this.schema = schema;
        this.options = options;
    }

    public String name() {
        return name;
    }

    public StructType schema() {
        return schema;
    }

    public Map properties() {
        return properties;
    }

    public MetadataColumn[] metadataColumns() {
        List found = new ArrayList();
        if (facts != null && facts.isScan) {
            found.add(new RowColumn("_rowid"));
            found.add(new RowColumn("_rowaddr"));
            if (facts.isStable) {
                found.add(new RowColumn("_row_created_at_version"));
                found.add(new RowColumn("_row_last_updated_at_version"));
            }
        }
        return (MetadataColumn[]) found.toArray(new MetadataColumn[0]);
    }

    public Set capabilities() {
        Set found = new HashSet(served(python).capabilities());
        found.add(TableCapability.OVERWRITE_BY_FILTER);
        found.add(TableCapability.OVERWRITE_DYNAMIC);
        return found;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
        CaseInsensitiveStringMap all = joined(more);
        PythonDataSourceV2 chosen = python;
        Facts found = facts;
        if (!all.equals(new CaseInsensitiveStringMap(options))) {
            // A query that brings options of its own reads another version, or other rows.
            chosen = LanceProvider.source();
            found = facts == null ? null : Facts.of(chosen, all.asCaseSensitiveMap());
            if (found != null && !found.schema.equals(stored)) {
                chosen = LanceProvider.source();
                found = null;
            }
        }
        ScanBuilder plain = ((SupportsRead) served(chosen)).newScanBuilder(all);
        return found == null || !found.isScan ? plain : new LanceScanBuilder(name, found, schema, all, plain);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        // A source that was looked at for reading is pinned to the version that it found.
        Conditions conditions = facts == null ? null : new Conditions(facts.exact, schema);
        CaseInsensitiveStringMap all = joined(info.options());
        if (all.getBoolean("overwriteSchema", false) && all.containsKey("table.name")) {
            Map replacing = new HashMap(all);
            replacing.put("table.replaces", "true");
            replacing.put("table.schema", schema.json());
            all = new CaseInsensitiveStringMap(replacing);
        }
        return new LanceWriteBuilder(served(LanceProvider.source()), info, all, conditions);
    }

    /** Returns the table for an overwrite with these columns, which it gets with the option overwriteSchema. */
    LanceTable over(StructType columns) {
        return new LanceTable(name, properties, LanceProvider.source(), null, columns, columns, options);
    }

    private Table served(PythonDataSourceV2 source) {
        return source.getTable(stored, new Transform[0], options);
    }

    private CaseInsensitiveStringMap joined(CaseInsensitiveStringMap more) {
        Map all = new HashMap(new CaseInsensitiveStringMap(options));
        all.putAll(more);
        return new CaseInsensitiveStringMap(all);
    }

    /** A column that each row has beside those of its dataset. */
    private static final class RowColumn implements MetadataColumn {
        private final String name;

        RowColumn(String name) {
            this.name = name;
        }

        public String name() {
            return name;
        }

        public DataType dataType() {
            return DataTypes.LongType;
        }
    }
}
