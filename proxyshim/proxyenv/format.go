package proxyenv

import (
	"encoding/json"
	"fmt"
	"strings"
)

// formats write variables, by the name of the format.
var formats = map[string]func([]Var) string{
	"env": func(vars []Var) string {
		var b strings.Builder
		for _, v := range vars {
			fmt.Fprintf(&b, "export %s=%s\n", v.Name, Quote(v.Value))
		}
		return b.String()
	},
	"docker": func(vars []Var) string {
		var b strings.Builder
		for i, v := range vars {
			if i > 0 {
				b.WriteString(" \\\n")
			}
			b.WriteString("--env " + Quote(v.Name+"="+v.Value))
		}
		return b.String() + "\n"
	},
	"json": func(vars []Var) string {
		values := make(map[string]string, len(vars))
		for _, v := range vars {
			values[v.Name] = v.Value
		}
		data, _ := json.MarshalIndent(values, "", "  ") // strings always encode
		return string(data) + "\n"
	},
}

// Format writes variables for another program to read: env for `eval` in a
// shell, docker for `eval "docker run ..."`, json as one object. A variable that
// does not belong into a shell is an error, whatever the format: Environment
// returns none.
func Format(format string, vars []Var) (string, error) {
	f, ok := formats[format]
	if !ok {
		return "", fmt.Errorf("output format %q is none of env, json and docker", format)
	}
	for _, v := range vars {
		if err := v.check(); err != nil {
			return "", fmt.Errorf("variable %q: %w", v.Name, err)
		}
	}
	return f(vars), nil
}

// Quote makes text one word for a POSIX shell.
func Quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
