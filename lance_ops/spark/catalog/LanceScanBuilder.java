package lanceops;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Takes what a query needs: columns, conditions, a limit, or only the number of rows. */
final class LanceScanBuilder
        implements SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownAggregates,
            SupportsPushDownLimit {
    private final String table;
    private final Facts facts;
    private final CaseInsensitiveStringMap options;
    private final ScanBuilder plain;
    private final Conditions conditions;
    private final List pushed = new ArrayList();
    private final List texts = new ArrayList();
    private StructType required;
    private int limit = -1;
    private int counts = 0;

    LanceScanBuilder(
            String table, Facts facts, StructType schema, CaseInsensitiveStringMap options, ScanBuilder plain) {
        this.table = table;
        this.facts = facts;
        this.options = options;
        this.plain = plain;
        this.required = facts.schema;
        this.conditions = new Conditions(facts.exact, schema);
    }

    public Predicate[] pushPredicates(Predicate[] predicates) {
        List left = new ArrayList();
        for (int i = 0; i < predicates.length; i++) {
            String text = conditions.json(predicates[i]);
            if (text == null) {
                left.add(predicates[i]);
            } else {
                pushed.add(predicates[i]);
                texts.add(text);
            }
        }
        return (Predicate[]) left.toArray(new Predicate[0]);
    }

    public Predicate[] pushedPredicates() {
        return (Predicate[]) pushed.toArray(new Predicate[0]);
    }

    public void pruneColumns(StructType schema) {
        required = schema;
    }

    public boolean pushLimit(int rows) {
        limit = rows;
        return true;
    }

    public boolean isPartiallyPushed() {
        return true;
    }

    public boolean supportCompletePushDown(Aggregation aggregation) {
        return isCount(aggregation);
    }

    public boolean pushAggregation(Aggregation aggregation) {
        if (!isCount(aggregation)) {
            return false;
        }
        counts = aggregation.aggregateExpressions().length;
        return true;
    }

    /** Whether the manifest answers it: without conditions, and for values that are never null. */
    private boolean isCount(Aggregation aggregation) {
        AggregateFunc[] functions = aggregation.aggregateExpressions();
        if (facts.rows < 0 || !pushed.isEmpty() || limit >= 0 || functions.length == 0
                || aggregation.groupByExpressions().length > 0) {
            return false;
        }
        for (int i = 0; i < functions.length; i++) {
            if (!(functions[i] instanceof CountStar) && !isCountOfAll(functions[i])) {
                return false;
            }
        }
        return true;
    }

    private boolean isCountOfAll(AggregateFunc function) {
        if (!(function instanceof Count) || ((Count) function).isDistinct()
                || !(((Count) function).column() instanceof NamedReference)) {
            return false;
        }
        String[] path = ((NamedReference) ((Count) function).column()).fieldNames();
        Map fields = fields();
        StructField field = path.length == 1 ? (StructField) fields.get(path[0]) : null;
        return field != null && !field.nullable();
    }

    public Scan build() {
        if (counts > 0) {
            return new CountScan(table, facts.rows, counts);
        }
        return new LanceScan(table, facts, columns(), texts, limit, options, plain);
    }

    /** The columns as stored; for a query that needs none, one of those that are cheapest to read. */
    private StructType columns() {
        StructField[] wanted = required.fields();
        Map known = fields();
        StructField[] found = new StructField[wanted.length];
        for (int i = 0; i < wanted.length; i++) {
            Object field = known.get(wanted[i].name());
            found[i] = field == null ? wanted[i] : (StructField) field;
        }
        if (found.length > 0 || facts.schema.length() == 0) {
            return new StructType(found);
        }
        StructField[] all = facts.schema.fields();
        StructField cheapest = all[0];
        Set read = conditions.columns();
        for (int i = 0; i < all.length; i++) {
            if (cost(all[i], read) < cost(cheapest, read)) {
                cheapest = all[i];
            }
        }
        return new StructType(new StructField[] {cheapest});
    }

    private static int cost(StructField field, Set read) {
        String kind = field.dataType().typeName();
        boolean isLong = kind.equals("binary") || kind.equals("array") || kind.equals("map")
            || kind.equals("struct");
        if (read.contains(field.name()) && !isLong) {
            return 0;
        }
        return isLong ? 1 << 20 : field.dataType().defaultSize();
    }

    private Map fields() {
        Map known = new HashMap();
        StructField[] all = facts.schema.fields();
        for (int i = 0; i < all.length; i++) {
            known.put(all[i].name(), all[i]);
        }
        return known;
    }

    /** The number of rows, as often as it is asked for. */
    private static final class CountScan implements LocalScan {
        private final String table;
        private final long rows;
        private final int counts;

        CountScan(String table, long rows, int counts) {
            this.table = table;
            this.rows = rows;
            this.counts = counts;
        }

        public InternalRow[] rows() {
            Object[] values = new Object[counts];
            for (int i = 0; i < counts; i++) {
                values[i] = Long.valueOf(rows);
            }
            return new InternalRow[] {new GenericInternalRow(values)};
        }

        public StructType readSchema() {
            StructType schema = new StructType();
            for (int i = 0; i < counts; i++) {
                schema = schema.add("count_" + i, DataTypes.LongType, false);
            }
            return schema;
        }

        public String description() {
            return "lance " + table + " (rows from the manifest)";
        }
    }
}
