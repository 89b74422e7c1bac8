package lanceops;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of any name over a folder or bucket: `spark.sql.catalog.<name>` is this class, and
 * `spark.sql.catalog.<name>.root` says where. Table `a.t` is the dataset `<root>/a/t.lance`; there is nothing else
 * to keep in step. The driver in Python lists, creates and removes (`folders.py`).
 */
public class LanceCatalog implements StagingTableCatalog, SupportsNamespaces {
    private final ObjectMapper mapper = new ObjectMapper();
    private String name;
    private String root;
    private final Map storage = new HashMap();

    public void initialize(String given, CaseInsensitiveStringMap options) {
        name = given;
        root = options.get("root");
        if (root == null) {
            throw new IllegalArgumentException(
                "set spark.sql.catalog." + given + ".root to the folder or bucket of the catalog");
        }
        Object[] keys = options.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            String key = keys[i].toString();
            if (key.startsWith("storage.")) {
                storage.put(key, options.get(key));
            } else if (!key.equals("root")) {
                throw new IllegalArgumentException(
                    "unknown option spark.sql.catalog." + given + "." + key + ": there are root, storage.<name>");
            }
        }
    }

    public String name() {
        return name;
    }

    // Tables

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        checkNamespace(namespace);
        List names = (List) parsed(ask("tables", namespace, ""));
        Identifier[] found = new Identifier[names.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = new Name(namespace, (String) names.get(i));
        }
        return found;
    }

    public boolean tableExists(Identifier table) {
        return ask("exists", table.namespace(), table.name()) != null;
    }

    public Table loadTable(Identifier table) throws NoSuchTableException {
        return load(table, null, null);
    }

    public Table loadTable(Identifier table, String version) throws NoSuchTableException {
        return load(table, "table.version", version);
    }

    public Table loadTable(Identifier table, long microseconds) throws NoSuchTableException {
        return load(table, "table.microseconds", String.valueOf(microseconds));
    }

    private Table load(Identifier table, String option, String value) throws NoSuchTableException {
        if (!tableExists(table)) {
            throw new NoSuchTableException(table);
        }
        Map options = options(table);
        if (option != null) {
            options.put(option, value);
        }
        PythonDataSourceV2 source = LanceProvider.source();
        Facts facts = Facts.of(source, options);
        return new LanceTable(
            table.toString(), properties(options), source, facts, facts.schema, facts.schema, options);
    }

    public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        return createTable(table, CatalogV2Util.v2ColumnsToStructType(columns), partitions, properties);
    }

    public Table createTable(Identifier table, StructType schema, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        check(table, schema, partitions, properties);
        if (tableExists(table)) {
            throw new TableAlreadyExistsException(table);
        }
        make(table, schema, properties, "create");
        try {
            return loadTable(table);
        } catch (NoSuchTableException error) {
            throw new IllegalStateException(error);
        }
    }

    public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        StructType schema = CatalogV2Util.v2ColumnsToStructType(columns);
        check(table, schema, partitions, properties);
        if (tableExists(table)) {
            throw new TableAlreadyExistsException(table);
        }
        return staged(table, schema, properties, false);
    }

    public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException, NoSuchTableException {
        StructType schema = CatalogV2Util.v2ColumnsToStructType(columns);
        check(table, schema, partitions, properties);
        if (!tableExists(table)) {
            throw new NoSuchTableException(table);
        }
        return staged(table, schema, properties, true);
    }

    public StagedTable stageCreateOrReplace(
            Identifier table, Column[] columns, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        StructType schema = CatalogV2Util.v2ColumnsToStructType(columns);
        check(table, schema, partitions, properties);
        return staged(table, schema, properties, tableExists(table));
    }

    public boolean dropTable(Identifier table) {
        return ask("drop", table.namespace(), table.name()) != null;
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        throw new UnsupportedOperationException(
            "the catalog " + name + " keeps no notes of a table; columns are changed by lance_ops.sql or"
            + " spark.sql in a session of lance_ops.spark.build_session");
    }

    public void renameTable(Identifier table, Identifier to) {
        throw new UnsupportedOperationException(
            "the catalog " + name + " does not rename a dataset, whose files would move: use CREATE TABLE `"
            + uri(to) + "` DEEP CLONE, then DROP TABLE");
    }

    // Namespaces

    public String[][] listNamespaces() throws NoSuchNamespaceException {
        return listNamespaces(new String[0]);
    }

    public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
        checkNamespace(namespace);
        List names = (List) parsed(ask("namespaces", namespace, ""));
        String[][] found = new String[names.size()][];
        for (int i = 0; i < found.length; i++) {
            found[i] = (String[]) Arrays.copyOf(namespace, namespace.length + 1);
            found[i][namespace.length] = (String) names.get(i);
        }
        return found;
    }

    public boolean namespaceExists(String[] namespace) {
        return namespace.length == 0 || ask("has_namespace", namespace, "") != null;
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        checkNamespace(namespace);
        Map found = new HashMap();
        found.put("location", folder(namespace));
        return found;
    }

    public void createNamespace(String[] namespace, Map metadata) throws NamespaceAlreadyExistsException {
        if (metadata.containsKey("location")) {
            throw new UnsupportedOperationException("a namespace lies in " + folder(namespace) + ": omit LOCATION");
        }
        if (namespaceExists(namespace)) {
            throw new NamespaceAlreadyExistsException(namespace);
        }
        ask("create_namespace", namespace, "");
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        throw new UnsupportedOperationException("the catalog " + name + " keeps no properties of a namespace");
    }

    public boolean dropNamespace(String[] namespace, boolean cascade)
            throws NoSuchNamespaceException, NonEmptyNamespaceException {
        checkNamespace(namespace);
        if (listTables(namespace).length > 0 || listNamespaces(namespace).length > 0) {
            // Whole trees of datasets go one by one: a folder may hold what is no table.
            throw new NonEmptyNamespaceException(namespace);
        }
        ask("drop_namespace", namespace, "");
        return true;
    }

    // Parts

    private void check(Identifier table, StructType schema, Transform[] partitions, Map properties)
            throws NoSuchNamespaceException {
        checkNamespace(table.namespace());
        Object provider = properties.get("provider");
        if (provider != null && !LanceProvider.FORMAT.equalsIgnoreCase(provider.toString())) {
            throw new UnsupportedOperationException(
                "the catalog " + name + " has tables of the format lance only, not " + provider);
        }
        if (properties.get("location") != null) {
            throw new UnsupportedOperationException("the table lies in " + uri(table) + ": omit LOCATION");
        }
        Map of = new HashMap(properties);
        of.put("provider", LanceProvider.FORMAT);
        LanceSessionCatalog.refusePartitions(partitions, of);
        LanceSessionCatalog.checkColumns(schema, of);
        LanceSessionCatalog.checkProperties(schema, of);
    }

    private void checkNamespace(String[] namespace) throws NoSuchNamespaceException {
        if (!namespaceExists(namespace)) {
            throw new NoSuchNamespaceException(namespace);
        }
    }

    private StagedTable staged(Identifier table, StructType schema, Map properties, boolean replaces) {
        Map options = options(table);
        options.put("table.schema", schema.json());
        options.put(replaces ? "table.replaces" : "table.new", "true");
        LanceSessionCatalog.putProperties(properties, options);
        return new StagedDataset(
            new LanceTable(
                table.toString(), properties(options), LanceProvider.source(), null, schema, schema, options),
            this, table, schema, properties, replaces);
    }

    void make(Identifier table, StructType schema, Map properties, String mode) {
        Map options = new HashMap();
        LanceSessionCatalog.putProperties(properties, options);
        Bridge.ask(
            new Object[] {"catalog_create", uri(table), text(storage), schema.json(), text(options), mode},
            SparkSession.active());
    }

    private Map options(Identifier table) {
        Map options = new HashMap(storage);
        options.put("path", uri(table));
        options.put("table.name", table.toString());
        options.put("table.zone", SQLConf.get().sessionLocalTimeZone());
        return options;
    }

    private Map properties(Map options) {
        Map found = new HashMap();
        found.put("provider", LanceProvider.FORMAT);
        found.put("location", options.get("path"));
        Object[] keys = storage.keySet().toArray();
        for (int i = 0; i < keys.length; i++) {
            found.put("option." + keys[i], storage.get(keys[i]));
        }
        return found;
    }

    private String folder(String[] namespace) {
        String base = root.endsWith("/") ? root.substring(0, root.length() - 1) : root;
        return namespace.length == 0 ? base : base + "/" + String.join("/", namespace);
    }

    private String uri(Identifier table) {
        return folder(table.namespace()) + "/" + table.name() + ".lance";
    }

    private Object ask(String word, String[] namespace, String table) {
        if (!Bridge.exists()) {
            throw new UnsupportedOperationException(
                "the catalog " + name + " needs a driver in Python that called lance_ops.spark.register");
        }
        return Bridge.ask(
            new Object[] {"catalog_" + word, root, text(storage), text(namespace), table}, SparkSession.active());
    }

    private String text(Object value) {
        try {
            return mapper.writeValueAsString(value);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private Object parsed(Object text) {
        try {
            return mapper.readValue((String) text, List.class);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
