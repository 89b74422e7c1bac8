package lanceops;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

import scala.Option;

/**
 * Schema, size and number of rows of one version, from the source in Python.
 *
 * The source sends them with the schema, as metadata of a field of its own at the end (see `facts.py`): this
 * needs no further process in Python. The object of the source stays pinned to the version.
 */
final class Facts {
    private static final String CARRIER = "__lance_ops__";
    private static final long UNKNOWN = -1;

    final StructType schema;
    final PythonDataSourceCreationResult source;
    /** Number of live rows, or -1 if it is not in the manifest, or if options select rows. */
    final long rows;
    /** Size of the data files, or -1. */
    final long bytes;
    /** Columns whose comparisons mean the same in Python and in Spark. */
    final Set exact;
    /** Whether columns, filters and limits may be pushed down: not into a search, nor without a dataset. */
    final boolean isScan;
    /** Whether rows keep their ids, and with them the versions that made them. */
    final boolean isStable;

    private Facts(
            StructType schema, PythonDataSourceCreationResult source, long rows, long bytes, Set exact,
            boolean isScan, boolean isStable) {
        this.schema = schema;
        this.source = source;
        this.rows = rows;
        this.bytes = bytes;
        this.exact = exact;
        this.isScan = isScan;
        this.isStable = isStable;
    }

    static Facts of(PythonDataSourceV2 python, Map options) {
        Map all = new HashMap(options);
        all.put("table.described", "true");
        PythonDataSourceCreationResult found = python.getOrCreateDataSourceInPython(
            LanceProvider.IN_PYTHON, new CaseInsensitiveStringMap(all), Option.empty());
        StructField[] fields = found.schema().fields();
        int last = fields.length - 1;
        if (last < 0 || !fields[last].name().equals(CARRIER)) {
            return new Facts(found.schema(), found, UNKNOWN, UNKNOWN, new HashSet(), false, false);
        }
        List own = new ArrayList(Arrays.asList(fields));
        own.remove(last);
        Metadata facts = fields[last].metadata();
        return new Facts(
            new StructType((StructField[]) own.toArray(new StructField[0])),
            found,
            facts.getLong("rows"),
            facts.getLong("bytes"),
            new HashSet(Arrays.asList(facts.getStringArray("exact"))),
            true,
            facts.getBoolean("stable"));
    }
}
