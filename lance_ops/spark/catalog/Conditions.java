package lanceops;

import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's conditions as JSON for the source in Python, which translates all of them exactly (`pushed.py`).
 *
 * Only comparisons of a column with constants of its own type pass, and what AND, OR and NOT make of them: Spark
 * has evaluated casts, time zones and its ANSI mode by then. Everything else stays with Spark.
 */
final class Conditions {
    /** Between the names of a path, as in `facts.py`: no name has it. */
    private static final String SEPARATOR = "\u0000";
    private static final Map SWAPPED = new HashMap();
    private static final Set COMPARED = new HashSet();
    private static final Set TEXT = new HashSet();

    static {
        SWAPPED.put("=", "=");
        SWAPPED.put("<=>", "<=>");
        SWAPPED.put("<", ">");
        SWAPPED.put("<=", ">=");
        SWAPPED.put(">", "<");
        SWAPPED.put(">=", "<=");
        COMPARED.add("boolean");
        COMPARED.add("byte");
        COMPARED.add("short");
        COMPARED.add("integer");
        COMPARED.add("long");
        COMPARED.add("float");
        COMPARED.add("double");
        COMPARED.add("string");
        COMPARED.add("binary");
        COMPARED.add("date");
        COMPARED.add("timestamp");
        COMPARED.add("timestamp_ntz");
        TEXT.add("STARTS_WITH");
        TEXT.add("ENDS_WITH");
        TEXT.add("CONTAINS");
    }

    private final ObjectMapper mapper = new ObjectMapper();
    private final Map types = new HashMap();
    private final Set read = new HashSet();

    /**
     * @param exact columns whose stored values are those that Spark reads
     * @param schema columns of the table; those of CHAR and VARCHAR have rules of Spark's own
     */
    Conditions(Set exact, StructType schema) {
        add("", schema, exact);
    }

    private void add(String prefix, StructType schema, Set exact) {
        StructField[] fields = schema.fields();
        for (int i = 0; i < fields.length; i++) {
            String path = prefix + fields[i].name();
            if (fields[i].dataType() instanceof StructType) {
                add(path + SEPARATOR, (StructType) fields[i].dataType(), exact);
            } else if (exact.contains(path)) {
                types.put(path, fields[i].dataType());
            }
        }
    }

    /** Returns a condition as JSON, or null if it stays with Spark. */
    String json(Expression condition) {
        String name = condition instanceof Predicate ? ((Predicate) condition).name() : "";
        Expression[] parts = condition.children();
        if (name.equals("AND") || name.equals("OR")) {
            String left = json(parts[0]);
            String right = json(parts[1]);
            return left == null || right == null ? null : list(name, left + ", " + right);
        }
        if (name.equals("NOT")) {
            String inner = json(parts[0]);
            return inner == null ? null : list(name, inner);
        }
        if (name.equals("IS_NULL") || name.equals("IS_NOT_NULL")) {
            String column = column(parts[0]);
            return column == null ? null : list(name, column);
        }
        if (name.equals("IN")) {
            return values(name, parts[0], parts, 1);
        }
        if (TEXT.contains(name)) {
            return isText(parts[0]) ? values(name, parts[0], parts, 1) : null;
        }
        if (!SWAPPED.containsKey(name)) {
            return null;
        }
        if (parts[0] instanceof Literal) {
            return values((String) SWAPPED.get(name), parts[1], parts, 0);
        }
        return values(name, parts[0], parts, 1);
    }

    /** Returns the names of the columns in all conditions so far. */
    Set columns() {
        return read;
    }

    private String values(String name, Expression subject, Expression[] parts, int from) {
        String column = column(subject);
        if (column == null) {
            return null;
        }
        DataType kind = kind(subject);
        StringBuilder found = new StringBuilder(column);
        int until = from == 0 ? 1 : parts.length;
        for (int i = from; i < until; i++) {
            String value = parts[i] instanceof Literal ? value((Literal) parts[i], kind) : null;
            if (value == null) {
                return null;
            }
            found.append(", ").append(value);
        }
        return list(name, found.toString());
    }

    private boolean isText(Expression subject) {
        if (column(subject) == null) {
            return false;
        }
        return kind(subject).typeName().equals("string");
    }

    private DataType kind(Expression subject) {
        return (DataType) types.get(String.join(SEPARATOR, ((NamedReference) subject).fieldNames()));
    }

    private String column(Expression subject) {
        if (!(subject instanceof NamedReference)) {
            return null;
        }
        String[] path = ((NamedReference) subject).fieldNames();
        if (!types.containsKey(String.join(SEPARATOR, path))) {
            return null;
        }
        read.add(path[0]);
        StringBuilder found = new StringBuilder();
        for (int i = 0; i < path.length; i++) {
            found.append(i > 0 ? ", " : "").append(text(path[i]));
        }
        return "[" + found + "]";
    }

    /** A constant as text, which keeps all its digits: dates as days, timestamps as microseconds. */
    private String value(Literal literal, DataType kind) {
        if (!literal.dataType().equals(kind)) {
            return null;
        }
        Object value = literal.value();
        if (value == null) {
            return "null";
        }
        if (kind.typeName().startsWith("decimal")) {
            return text(value.toString());
        }
        if (!COMPARED.contains(kind.typeName())) {
            return null;
        }
        return text(value instanceof byte[] ? Base64.getEncoder().encodeToString((byte[]) value) : value.toString());
    }

    private String text(String value) {
        try {
            return mapper.writeValueAsString(value);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private String list(String name, String rest) {
        return "[" + text(name) + ", " + rest + "]";
    }
}
