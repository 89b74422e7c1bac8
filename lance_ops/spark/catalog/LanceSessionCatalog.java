package lanceops;

import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VarcharType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's session catalog, which hands the options of a table on to its data source.
 *
 * Spark keeps location and options of a table, but a data source that is written in Python never sees them
 * when the table is read or written by its name. Tables of other kinds are loaded as Spark itself loads them.
 * Plain Java without lambdas and generics, since Spark's own compiler (Janino) builds it.
 */
public class LanceSessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
    private static final String FORMAT = LanceProvider.FORMAT;
    private static final String STABLE_ROW_IDS = "enable_stable_row_ids";
    private static final String FILE_VERSION = "file_format_version";
    private static final String FIXED_SIZE = ".arrow.fixed-size-list.size";

    public Table loadTable(Identifier name) throws NoSuchTableException {
        return resolve(super.loadTable(name), null, null);
    }

    public Table loadTable(Identifier name, String version) throws NoSuchTableException {
        Table table = super.loadTable(name);
        return isLance(table) ? resolve(table, "table.version", version) : super.loadTable(name, version);
    }

    public Table loadTable(Identifier name, long microseconds) throws NoSuchTableException {
        Table table = super.loadTable(name);
        return isLance(table)
            ? resolve(table, "table.microseconds", String.valueOf(microseconds))
            : super.loadTable(name, microseconds);
    }

    public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        checkColumns(CatalogV2Util.v2ColumnsToStructType(columns), properties);
        return create(name, columns, partitions, properties);
    }

    /** The columns of a query keep notes of the tables that it reads, which say nothing about its rows. */
    private Table create(Identifier name, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        refusePartitions(partitions, properties);
        checkProperties(CatalogV2Util.v2ColumnsToStructType(columns), properties);
        super.createTable(name, columns, partitions, properties);
        return created(name);
    }

    public Table createTable(Identifier name, StructType schema, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        refusePartitions(partitions, properties);
        checkColumns(schema, properties);
        checkProperties(schema, properties);
        super.createTable(name, schema, partitions, properties);
        return created(name);
    }

    public Table alterTable(Identifier name, TableChange[] changes) throws NoSuchTableException {
        Table table = super.loadTable(name);
        for (int i = 0; i < changes.length; i++) {
            if (changes[i] instanceof TableChange.ColumnChange && isLance(table)) {
                // Spark would change its own notes, and not the dataset.
                throw new UnsupportedOperationException(
                    "Spark cannot change the columns of a dataset: use lance_ops.sql(...) with the same"
                    + " statement, or lance_ops.add_columns, alter_columns, drop_columns");
            }
            if (changes[i] instanceof TableChange.SetProperty && isLance(table)) {
                String key = ((TableChange.SetProperty) changes[i]).property();
                if (isOurs(key)) {
                    throw new UnsupportedOperationException(
                        "the table property " + key + " is for CREATE TABLE; it does not change a dataset");
                }
            }
        }
        super.alterTable(name, changes);
        return loadTable(name);
    }

    public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        return new Staged(create(name, columns, partitions, properties), this, name);
    }

    public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException, NoSuchTableException {
        Table old = super.loadTable(name);
        if (isLance(old)) {
            return overwrite(old, columns, partitions, properties);
        }
        return swapped(name, old, columns, partitions, properties);
    }

    /**
     * Stage a dataset beside a table of another format, under a name of its own; the commit swaps the names.
     *
     * The query may fail or read the old table, which therefore stays until the dataset is committed.
     */
    private StagedTable swapped(
            Identifier name, Table old, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        Object provider = properties.get("provider");
        if (provider == null || !FORMAT.equalsIgnoreCase(provider.toString()) || !(old instanceof V1Table)) {
            throw new UnsupportedOperationException(
                "only a table of the format lance replaces a table here: DROP TABLE it first");
        }
        CatalogTable before = ((V1Table) old).catalogTable();
        if (CatalogTableType.VIEW().equals(before.tableType())) {
            throw new UnsupportedOperationException(name + " is a view, not a table: DROP VIEW it first");
        }
        String unique = UUID.randomUUID().toString().replace("-", "");
        Identifier staged = new Name(name.namespace(), name.name() + "__new_" + unique);
        Identifier kept = new Name(name.namespace(), name.name() + "__old_" + unique);
        Table made;
        try {
            made = create(staged, columns, partitions, properties);
        } catch (TableAlreadyExistsException error) {
            throw new IllegalStateException(error);
        }
        try {
            refuseOverlap(before, ((V1Table) super.loadTable(staged)).catalogTable());
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        } catch (RuntimeException error) {
            super.dropTable(staged);
            throw error;
        }
        return new Swap(made, this, name, staged, kept);
    }

    /** Dropping a managed table removes its folder, and what lies in it. */
    private static void refuseOverlap(CatalogTable old, CatalogTable made) {
        if (old.storage().locationUri().isEmpty()) {
            return;
        }
        String one = place((URI) old.storage().locationUri().get());
        URI to = placeOf(made);
        if (to == null) {
            return;
        }
        String other = place(to);
        if (one.startsWith(other) || other.startsWith(one)) {
            throw new UnsupportedOperationException(
                "the dataset would lie in the folder of the table that it replaces: name another LOCATION");
        }
    }

    /** A folder in one spelling, with a slash at its end. */
    private static String place(URI location) {
        String scheme = location.getScheme() == null ? "file" : location.getScheme();
        if (scheme.equals("s3a") || scheme.equals("s3n")) {
            scheme = "s3";
        }
        String host = location.getAuthority() == null ? "" : location.getAuthority();
        String path = new Path(location).toUri().getPath();
        return scheme + "://" + host + (path.endsWith("/") ? path : path + "/");
    }

    /** The first write would refuse columns that no dataset can have: the old table would be gone by then. */
    private void checkColumns(Identifier name) {
        try {
            resolve(super.loadTable(name), "table.checked", "true");
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        }
    }

    private void swap(Identifier name, Identifier staged, Identifier kept) {
        try {
            super.renameTable(name, kept);
        } catch (Exception error) {
            throw new IllegalStateException(
                "cannot rename the table " + name + ", which stays as it was", error);
        }
        try {
            super.renameTable(staged, name);
        } catch (Exception error) {
            try {
                super.renameTable(kept, name);
            } catch (Exception second) {
                error.addSuppressed(second);
                throw new IllegalStateException(
                    "the table " + name + " is now named " + kept + ": rename it back", error);
            }
            throw new IllegalStateException(
                "cannot rename the new table to " + name + "; the old one stays as it was", error);
        }
        super.invalidateTable(name);
        super.dropTable(kept);
    }

    public StagedTable stageCreateOrReplace(
            Identifier name, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        try {
            return tableExists(name)
                ? stageReplace(name, columns, partitions, properties)
                : stageCreate(name, columns, partitions, properties);
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        } catch (TableAlreadyExistsException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Spark would drop the table before its query runs, which may fail, or read the table itself. */
    private static StagedTable overwrite(Table old, Column[] columns, Transform[] partitions, Map properties) {
        refusePartitions(partitions, properties);
        Object provider = properties.get("provider");
        if (provider != null && !FORMAT.equalsIgnoreCase(provider.toString())) {
            throw new UnsupportedOperationException(
                "the table is a dataset, which is not replaced by a table of another format: DROP TABLE it first");
        }
        CatalogTable table = ((V1Table) old).catalogTable();
        CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(properties);
        URI place = placeOf(table);
        if (isElsewhere(given.get("location"), place) || isElsewhere(given.get("option.uri"), place)) {
            throw new UnsupportedOperationException(
                "the table lies elsewhere: DROP TABLE it first, or overwrite it without a location");
        }
        LanceTable found = (LanceTable) resolve(old, null, null);
        return new Staged(found.over(CatalogV2Util.v2ColumnsToStructType(columns)), null, null);
    }

    private static boolean isElsewhere(String given, URI place) {
        return given != null && (place == null || !samePlace(given, place));
    }

    /** Where the dataset of a table lies; null where nothing says so. */
    private static URI placeOf(CatalogTable table) {
        CaseInsensitiveStringMap options =
            new CaseInsensitiveStringMap(CollectionConverters.asJava(table.storage().properties()));
        if (options.get("uri") != null) {
            return CatalogUtils.stringToURI(options.get("uri"));
        }
        return table.storage().locationUri().isDefined() ? (URI) table.storage().locationUri().get() : null;
    }

    private static boolean samePlace(String given, URI location) {
        String one = new Path(CatalogUtils.stringToURI(given)).toUri().getPath();
        URI uri = CatalogUtils.stringToURI(given);
        boolean sameStore = uri.getScheme() == null
            ? location.getScheme() == null || "file".equals(location.getScheme())
            : uri.getScheme().equals(location.getScheme());
        boolean sameHost = uri.getAuthority() == null
            ? location.getAuthority() == null
            : uri.getAuthority().equals(location.getAuthority());
        return sameStore && sameHost && one.equals(new Path(location).toUri().getPath());
    }

    static void refusePartitions(Transform[] partitions, Map properties) {
        Object provider = properties.get("provider");
        if (partitions.length > 0 && provider != null && FORMAT.equalsIgnoreCase(provider.toString())) {
            throw new UnsupportedOperationException(
                "datasets have no partitions: leave PARTITIONED BY and CLUSTERED BY out, and index columns");
        }
    }

    /** Refuses what a dataset does not keep: later statements would write and compare other values. */
    static void checkColumns(StructType schema, Map properties) {
        Object provider = properties.get("provider");
        if (provider == null || !FORMAT.equalsIgnoreCase(provider.toString())) {
            return;
        }
        StructField[] fields = schema.fields();
        for (int i = 0; i < fields.length; i++) {
            if (fields[i].metadata().contains("CURRENT_DEFAULT")) {
                throw new UnsupportedOperationException(
                    "column " + fields[i].name() + " has a DEFAULT, which datasets do not keep: leave it out,"
                    + " and write the value in each INSERT");
            }
            if (fields[i].dataType().sql().contains(" COLLATE ")) {
                throw new UnsupportedOperationException(
                    "column " + fields[i].name() + " has a collation, which datasets do not keep: leave it"
                    + " out, and compare with COLLATE in each query");
            }
        }
    }

    /** Refuses properties of the connector for the JVM that nothing here honours. */
    static void checkProperties(StructType schema, Map properties) {
        Object provider = properties.get("provider");
        if (provider == null || !FORMAT.equalsIgnoreCase(provider.toString())) {
            return;
        }
        Object[] keys = properties.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            String key = keys[i].toString();
            // Options come twice, and the source checks them.
            if (isOurs(key) && !key.startsWith("option.") && !properties.containsKey("option." + key)) {
                checkProperty(schema, key, properties.get(key).toString());
            }
        }
    }

    private static void checkProperty(StructType schema, String key, String value) {
        boolean valid = false;
        if (key.equals(STABLE_ROW_IDS)) {
            valid = value.equalsIgnoreCase("true") || value.equalsIgnoreCase("false");
        } else if (key.equals(FILE_VERSION)) {
            valid = value.matches("2\\.[0-9]");
        } else if (key.endsWith(FIXED_SIZE)) {
            String column = key.substring(0, key.length() - FIXED_SIZE.length());
            StructField[] fields = schema.fields();
            for (int i = 0; i < fields.length; i++) {
                valid = valid || (fields[i].name().equals(column) && fields[i].dataType() instanceof ArrayType);
            }
            valid = valid && value.matches("[1-9][0-9]{0,8}");
        } else {
            throw new UnsupportedOperationException(
                "the table property " + key + " is not supported here: leave it out, or create the dataset with"
                + " lance_ops.write_dataset or append_dataframe(schema=...) first");
        }
        if (!valid) {
            throw new IllegalArgumentException(
                "the table property " + key + " cannot be " + value + ": sizes are whole numbers, for columns"
                + " of arrays of this name; " + STABLE_ROW_IDS + " is true or false; " + FILE_VERSION
                + " is 2.0 to 2.2");
        }
    }

    /** Whether a table property would say how a dataset is made. */
    private static boolean isOurs(String key) {
        return key.equals(STABLE_ROW_IDS)
            || key.equals(FILE_VERSION)
            || key.startsWith("lance.")
            || key.contains(".lance.")
            || key.contains(".lance-")
            || key.contains(".arrow.");
    }

    /** Hands the properties of a table that say how its dataset is made to the source. */
    static void putProperties(Map properties, Map options) {
        Object[] keys = properties.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            if (isOurs(keys[i].toString())) {
                options.put("table.property." + keys[i], properties.get(keys[i]));
            }
        }
    }

    private Table created(Identifier name) {
        try {
            // Only a table that is made from a query is written to through what this returns.
            Table table = super.loadTable(name);
            return isLance(table) ? resolve(table, "table.new", "true") : resolve(table, null, null);
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        }
    }

    private static boolean isLance(Table table) {
        if (!(table instanceof V1Table)) {
            return false;
        }
        Option provider = ((V1Table) table).catalogTable().provider();
        return provider.isDefined() && FORMAT.equalsIgnoreCase((String) provider.get());
    }

    private static Table resolve(Table loaded, String option, String value) {
        if (!(loaded instanceof V1Table)) {
            return loaded;
        }
        CatalogTable table = ((V1Table) loaded).catalogTable();
        if (table.provider().isEmpty()) {
            return loaded;
        }
        String format = (String) table.provider().get();
        Map options = new HashMap(CollectionConverters.asJava(table.storage().properties()));
        if (table.storage().locationUri().isDefined()) {
            options.put("path", CatalogUtils.URIToString((URI) table.storage().locationUri().get()));
        }
        if (!FORMAT.equalsIgnoreCase(format)) {
            Option found = DataSourceV2Utils.getTableProvider(format, SQLConf.get());
            if (found.isEmpty()) {
                return loaded;
            }
            TableProvider provider = (TableProvider) found.get();
            CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
            return provider.supportsExternalMetadata()
                ? provider.getTable(loaded.schema(), loaded.partitioning(), options)
                : provider.getTable(
                    provider.inferSchema(given), provider.inferPartitioning(given), options);
        }
        if (option != null) {
            options.put(option, value);
        }
        putProperties(CollectionConverters.asJava(table.properties()), options);
        options.put("table.zone", SQLConf.get().sessionLocalTimeZone());
        options.put("table.name", table.identifier().unquotedString());
        if (loaded.schema().length() > 0) {
            options.put("table.schema", loaded.schema().json());
        }
        // The columns are those of the dataset, which others may have changed; a new table has none yet.
        PythonDataSourceV2 source = LanceProvider.source();
        Facts facts = "table.new".equals(option) ? null : Facts.of(source, options);
        StructType schema = facts == null ? loaded.schema() : facts.schema;
        StructType declared = (StructType) withLengths(schema, table.schema());
        return new LanceTable(loaded.name(), loaded.properties(), source, facts, schema, declared, options);
    }

    /** Columns of a dataset, whose texts are of the lengths that the table declares: Spark sees to the rest. */
    private static DataType withLengths(DataType found, DataType declared) {
        if (found instanceof StringType && (declared instanceof CharType || declared instanceof VarcharType)) {
            return declared;
        }
        if (found instanceof ArrayType && declared instanceof ArrayType) {
            ArrayType array = (ArrayType) found;
            DataType element = withLengths(array.elementType(), ((ArrayType) declared).elementType());
            return new ArrayType(element, array.containsNull());
        }
        if (found instanceof MapType && declared instanceof MapType) {
            MapType map = (MapType) found;
            DataType key = withLengths(map.keyType(), ((MapType) declared).keyType());
            DataType value = withLengths(map.valueType(), ((MapType) declared).valueType());
            return new MapType(key, value, map.valueContainsNull());
        }
        if (found instanceof StructType && declared instanceof StructType) {
            Map known = new HashMap();
            StructField[] theirs = ((StructType) declared).fields();
            for (int i = 0; i < theirs.length; i++) {
                // Where a text has a length, the catalog keeps the type apart.
                Option kept = CharVarcharUtils.getRawType(theirs[i].metadata());
                known.put(theirs[i].name(), kept.isDefined() ? kept.get() : theirs[i].dataType());
            }
            StructField[] ours = ((StructType) found).fields();
            StructField[] fields = new StructField[ours.length];
            for (int i = 0; i < ours.length; i++) {
                DataType kind = (DataType) known.get(ours[i].name());
                fields[i] = kind == null
                    ? ours[i]
                    : new StructField(
                        ours[i].name(),
                        withLengths(ours[i].dataType(), kind),
                        ours[i].nullable(),
                        ours[i].metadata());
            }
            return new StructType(fields);
        }
        return found;
    }

    /** A table that a query fills: a new one goes when the query fails; one that was there gets one commit. */
    private static final class Staged implements StagedTable, SupportsWrite {
        private final Table table;
        private final LanceSessionCatalog catalog;
        private final Identifier created;
        private boolean written = false;

        Staged(Table table, LanceSessionCatalog catalog, Identifier created) {
            this.table = table;
            this.catalog = catalog;
            this.created = created;
        }

        public String name() {
            return table.name();
        }

        public StructType schema() {
            return table.schema();
        }

        public Map properties() {
            return table.properties();
        }

        public Set capabilities() {
            return table.capabilities();
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            written = true;
            WriteBuilder builder = ((SupportsWrite) table).newWriteBuilder(info);
            return created == null ? ((SupportsTruncate) builder).truncate() : builder;
        }

        public void commitStagedChanges() {
            if (created == null && !written) {
                throw new UnsupportedOperationException(
                    "a dataset is replaced by the rows of a query only: use INSERT OVERWRITE, or DROP TABLE it first");
            }
        }

        public void abortStagedChanges() {
            if (created != null) {
                catalog.dropTable(created);
            }
        }
    }

    /** A dataset that takes the name of a table of another format when it is committed. */
    private static final class Swap implements StagedTable, SupportsWrite {
        private final Table table;
        private final LanceSessionCatalog catalog;
        private final Identifier name;
        private final Identifier staged;
        private final Identifier kept;
        private boolean written = false;

        Swap(Table table, LanceSessionCatalog catalog, Identifier name, Identifier staged, Identifier kept) {
            this.table = table;
            this.catalog = catalog;
            this.name = name;
            this.staged = staged;
            this.kept = kept;
        }

        public String name() {
            return table.name();
        }

        public StructType schema() {
            return table.schema();
        }

        public Map properties() {
            return table.properties();
        }

        public Set capabilities() {
            return table.capabilities();
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            written = true;
            return ((SupportsWrite) table).newWriteBuilder(info);
        }

        public void commitStagedChanges() {
            if (!written) {
                catalog.checkColumns(staged);
            }
            catalog.swap(name, staged, kept);
        }

        public void abortStagedChanges() {
            catalog.dropTable(staged);
        }
    }
}
