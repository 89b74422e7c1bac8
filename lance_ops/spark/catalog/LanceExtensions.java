package lanceops;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

import java.util.regex.Pattern;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** Setting spark.sql.extensions: spark.sql takes the statements of lance_ops.sql on datasets. */
public class LanceExtensions extends AbstractFunction1 {
    public Object apply(Object extensions) {
        ((SparkSessionExtensions) extensions).injectParser(new Parsers());
        return BoxedUnit.UNIT;
    }

    private static final class Parsers extends AbstractFunction2 {
        public Object apply(Object session, Object next) {
            return Proxy.newProxyInstance(
                ParserInterface.class.getClassLoader(), new Class[] {ParserInterface.class},
                new Parser((SparkSession) session, (ParserInterface) next));
        }
    }

    /**
     * Asks the parser in Python about texts that begin like its statements; hands everything else on.
     *
     * A proxy, since the methods of the interface differ between versions of Spark.
     */
    private static final class Parser implements InvocationHandler {
        private static final Pattern STATEMENT = Pattern.compile(
            "(?is)(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*"
            + "(?:OPTIMIZE|VACUUM|DELETE|UPDATE|REPLACE|MERGE|RESTORE|ALTER\\s+TABLE"
            + "|SHOW\\s+(?:INDEXES|INDEX|TAGS|TAG|BRANCHES|BRANCH)"
            + "|(?:DESCRIBE|DESC)\\s+(?:HISTORY|DETAIL)"
            + "|CREATE\\s+TABLE\\s+.*\\s(?:SHALLOW|DEEP)\\s+CLONE)\\b.*");
        private final SparkSession session;
        private final ParserInterface next;

        Parser(SparkSession session, ParserInterface next) {
            this.session = session;
            this.next = next;
        }

        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            boolean isPlan = method.getName().equals("parsePlan")
                || method.getName().equals("parsePlanWithParameters");
            if (isPlan && STATEMENT.matcher((String) arguments[0]).matches()) {
                Object statement = LanceStatement.of((String) arguments[0], session);
                if (statement != null) {
                    return statement;
                }
            }
            try {
                return method.invoke(next, arguments);
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        }
    }
}
