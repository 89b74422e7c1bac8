package lanceops;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A write by the source in Python: it appends, or replaces all rows or those that a condition selects. */
final class LanceWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
    private static final String REPLACED = "table.replace";

    private final Table served;
    private final LogicalWriteInfo info;
    private final Map options;
    private final Conditions conditions;
    private boolean replacesAll = false;

    /** @param conditions null if the columns of the dataset are not known, so that only all rows are replaced */
    LanceWriteBuilder(
            Table served, LogicalWriteInfo info, CaseInsensitiveStringMap options, Conditions conditions) {
        this.served = served;
        this.info = info;
        this.options = new HashMap(options);
        this.conditions = conditions;
    }

    public boolean canOverwrite(Predicate[] predicates) {
        return isAll(predicates) || json(predicates) != null;
    }

    public WriteBuilder overwrite(Predicate[] predicates) {
        replacesAll = true;
        if (!isAll(predicates)) {
            options.put(REPLACED, json(predicates));
        }
        return this;
    }

    /** Spark's default for a filter that is always true; spelled out, since it is made of a generic array. */
    public WriteBuilder truncate() {
        replacesAll = true;
        return this;
    }

    /** A dataset has no partitions: all rows go, as with Spark's own tables without partitions. */
    public WriteBuilder overwriteDynamicPartitions() {
        return truncate();
    }

    public Write build() {
        WriteBuilder builder = ((SupportsWrite) served)
            .newWriteBuilder(new WriteInfo(info, new CaseInsensitiveStringMap(options)));
        return (replacesAll ? ((SupportsTruncate) builder).truncate() : builder).build();
    }

    private static boolean isAll(Predicate[] predicates) {
        return predicates.length == 0 || (predicates.length == 1 && predicates[0] instanceof AlwaysTrue);
    }

    private String json(Predicate[] predicates) {
        List texts = new ArrayList();
        for (int i = 0; i < predicates.length; i++) {
            String text = conditions == null ? null : conditions.json(predicates[i]);
            if (text == null) {
                return null;
            }
            texts.add(text);
        }
        return "[" + String.join(", ", texts) + "]";
    }

    /** What Spark says of a write, with the options of the table. */
    private static final class WriteInfo implements LogicalWriteInfo {
        private final LogicalWriteInfo info;
        private final CaseInsensitiveStringMap options;

        WriteInfo(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
            this.info = info;
            this.options = options;
        }

        public CaseInsensitiveStringMap options() {
            return options;
        }

        public String queryId() {
            return info.queryId();
        }

        public StructType schema() {
            return info.schema();
        }

        public Optional rowIdSchema() {
            return info.rowIdSchema();
        }

        public Optional metadataSchema() {
            return info.metadataSchema();
        }
    }
}
