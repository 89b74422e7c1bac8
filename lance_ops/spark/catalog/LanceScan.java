package lanceops;

import java.util.List;
import java.util.OptionalLong;

import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A scan of some columns and rows of one version, by the source in Python.
 *
 * The reader in Python gets its conditions and its limit in the metadata of the first column, see `facts.py`.
 */
final class LanceScan implements SupportsReportStatistics {
    private static final String CONDITIONS = "lance_ops.scan";
    private static final int ROW_OVERHEAD = 8;

    private final String table;
    private final Facts facts;
    private final StructType columns;
    private final List conditions;
    private final int limit;
    private final ScanBuilder plain;
    private final PythonDataSourceV2 python;
    private final Scan inner;
    private Batch batch;

    LanceScan(
            String table, Facts facts, StructType columns, List conditions, int limit,
            CaseInsensitiveStringMap options, ScanBuilder plain) {
        this.table = table;
        this.facts = facts;
        this.columns = columns;
        this.conditions = conditions;
        this.limit = limit;
        this.plain = plain;
        python = LanceProvider.source();
        inner = ((SupportsRead) python.getTable(columns, new Transform[0], options))
            .newScanBuilder(options).build();
    }

    public StructType readSchema() {
        return columns;
    }

    public String description() {
        return "lance " + table + " " + columns.catalogString() + ", conditions " + conditions
            + (limit < 0 ? "" : ", limit " + limit);
    }

    public synchronized Batch toBatch() {
        if (batch == null) {
            python.setReadInfo(python.source().createReadInfoInPython(facts.source, described(), false));
            batch = inner.toBatch();
        }
        return batch;
    }

    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        return plain.build().toMicroBatchStream(checkpoint);
    }

    public CustomMetric[] supportedCustomMetrics() {
        return inner.supportedCustomMetrics();
    }

    public CustomTaskMetric[] reportDriverMetrics() {
        return inner.reportDriverMetrics();
    }

    public Scan.ColumnarSupportMode columnarSupportMode() {
        return inner.columnarSupportMode();
    }

    public Statistics estimateStatistics() {
        return new Estimate(estimatedBytes(), facts.rows);
    }

    private StructType described() {
        if (columns.length() == 0 || (conditions.isEmpty() && limit < 0)) {
            return columns;
        }
        StructField[] fields = columns.fields();
        String text = "{\"conditions\": [" + String.join(", ", conditions) + "], \"limit\": " + limit + "}";
        fields[0] = new StructField(
            fields[0].name(), fields[0].dataType(), fields[0].nullable(),
            new MetadataBuilder().withMetadata(fields[0].metadata()).putString(CONDITIONS, text).build());
        return new StructType(fields);
    }

    /**
     * The share of the data files that these columns have by the widths of their types, as Spark estimates it
     * for its own formats; at least what values of fixed widths take in memory, since files are compressed.
     */
    private OptionalLong estimatedBytes() {
        if (facts.bytes < 0) {
            return OptionalLong.empty();
        }
        double part = (double) (columns.defaultSize() + ROW_OVERHEAD)
            / (facts.schema.defaultSize() + ROW_OVERHEAD);
        double size = facts.bytes * Math.min(1, part);
        StructField[] fields = columns.fields();
        long width = ROW_OVERHEAD;
        for (int i = 0; i < fields.length; i++) {
            Object kind = fields[i].dataType();
            if (kind instanceof BinaryType || kind instanceof ArrayType || kind instanceof MapType) {
                // Blobs and vectors are most of a file, whatever share of the columns they are.
                size = Math.max(size, facts.bytes);
            }
            boolean isFixed = !(kind instanceof StringType || kind instanceof BinaryType
                || kind instanceof ArrayType || kind instanceof MapType || kind instanceof StructType);
            width += isFixed ? fields[i].dataType().defaultSize() : ROW_OVERHEAD;
        }
        return OptionalLong.of((long) Math.max(size, Math.max(0, facts.rows) * (double) width));
    }

    private static final class Estimate implements Statistics {
        private final OptionalLong bytes;
        private final long rows;

        Estimate(OptionalLong bytes, long rows) {
            this.bytes = bytes;
            this.rows = rows;
        }

        public OptionalLong sizeInBytes() {
            return bytes;
        }

        public OptionalLong numRows() {
            return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
        }
    }
}
