package lanceops;

import java.util.function.BiFunction;

/** The process in Python that drives this JVM: it answers requests, each a word and its arguments. */
public final class Bridge {
    private static volatile BiFunction python;

    private Bridge() {
    }

    /** Whether there is one: not on a server of Spark Connect, nor in a program in Java or Scala. */
    static boolean exists() {
        return python != null;
    }

    /** Called by Python, once for each gateway. */
    public static void set(BiFunction found) {
        python = found;
    }

    /** Returns its answer; what fails there fails here, with the same text. */
    static Object ask(Object[] request, Object session) {
        Object answer = python.apply(request, session);
        if (answer instanceof String && ((String) answer).startsWith("error ")) {
            String[] parts = ((String) answer).split(" ", 3);
            if (parts[1].equals("UnsupportedError")) {
                throw new UnsupportedOperationException(parts[2]);
            }
            throw parts[1].equals("InvalidArgumentError") || parts[1].equals("PredicateError")
                ? new IllegalArgumentException(parts[2])
                : new IllegalStateException(parts[1] + ": " + parts[2]);
        }
        return answer;
    }
}
