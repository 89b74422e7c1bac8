package lanceops;

import java.util.HashMap;
import java.util.Map;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.DataSourceManager;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format lance for paths: the source in Python behind a table that takes columns, filters and limits.
 *
 * Spark finds this class by its short name before a source in Python of the same name. Sources in Python are
 * known to the session only in which they were registered; this class brings them to the others of the process.
 */
public class LanceProvider implements TableProvider, DataSourceRegister {
    static final String FORMAT = "lance";
    /** Spark refuses a second source of one name, also where one is in Java and the other in Python. */
    static final String IN_PYTHON = "lance_python";
    private static UserDefinedPythonDataSource registered;

    private PythonDataSourceV2 python;
    private Facts facts;

    public String shortName() {
        return FORMAT;
    }

    public boolean supportsExternalMetadata() {
        return true;
    }

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        if (python == null) {
            python = source();
            facts = Facts.of(python, options.asCaseSensitiveMap());
        }
        return facts.schema;
    }

    public Table getTable(StructType schema, Transform[] partitions, Map properties) {
        boolean described = facts != null && schema.equals(facts.schema);
        return new LanceTable(
            FORMAT, new HashMap(), described ? python : source(), described ? facts : null, schema, schema,
            new HashMap(properties));
    }

    /** Returns a source of its own for each scan or write: it keeps what it was made for first. */
    static synchronized PythonDataSourceV2 source() {
        DataSourceManager manager = ((org.apache.spark.sql.classic.SparkSession) SparkSession.active())
            .sessionState().dataSourceManager();
        if (manager.dataSourceExists(IN_PYTHON)) {
            registered = manager.lookupDataSource(IN_PYTHON);
        } else if (registered != null) {
            manager.registerDataSource(IN_PYTHON, registered);
        } else {
            throw new IllegalStateException(
                "the format lance is not registered in this process: call lance_ops.spark.register(spark)");
        }
        PythonDataSourceV2 found = new PythonDataSourceV2();
        found.setShortName(IN_PYTHON);
        return found;
    }
}
