package lanceops;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.command.ListJarsCommand;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A statement that Python parses and runs (`bridge.py`).
 *
 * It extends a command of Spark without children, since the trait of commands cannot be implemented in Java.
 */
public class LanceStatement extends ListJarsCommand {
    private final Seq attributes;

    /** Spark copies nodes by the constructor that takes what its own class has. */
    public LanceStatement(Seq parts) {
        super(parts);
        StructType schema = (StructType) DataType.fromJson((String) parts.apply(1));
        attributes = DataTypeUtils.toAttributes(schema);
    }

    /** Returns a statement, or null if it is for Spark: a query, or on a table of another format. */
    static LanceStatement of(String text, SparkSession session) {
        if (!Bridge.exists()) {
            return null;
        }
        Object schema = Bridge.ask(new Object[] {"claim", text}, session);
        return schema == null ? null : new LanceStatement(parts(text, schema.toString()));
    }

    private static Seq parts(String text, String schema) {
        List found = new ArrayList();
        Collections.addAll(found, new Object[] {text, schema});
        return CollectionConverters.asScala(found).toSeq();
    }

    public Seq output() {
        return attributes;
    }

    public Seq run(SparkSession session) {
        Dataset rows = (Dataset) Bridge.ask(new Object[] {"run", jars().apply(0)}, session);
        return CollectionConverters.asScala(rows.collectAsList()).toSeq();
    }

    public Seq run(org.apache.spark.sql.classic.SparkSession session) {
        return run((SparkSession) session);
    }

    public String productPrefix() {
        return "LanceStatement";
    }

    public String nodeName() {
        return "LanceStatement";
    }
}
