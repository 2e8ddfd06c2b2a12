package injector

import (
	"regexp"
	"strings"
)

const (
	logLevelAnnotation   = "config.linkerd.io/proxy-log-level"
	logHeadersAnnotation = "config.linkerd.io/proxy-log-http-headers"
	defaultLogLevel      = "warn,linkerd=info,hickory=error"
	// logNoHeaders keeps headers, which may be secret, out of the log.
	logNoHeaders = ",[{headers}]=off,[{request}]=off"
)

// logDirective is one part of a log level, as tracing_subscriber's EnvFilter
// reads it: a level, or a target, a span in brackets or both, with a level.
// Commas always separate parts.
var logDirective = regexp.MustCompile(`^(?i:trace|debug|info|warn|error|off|[0-5])$|^(?:[\w:-]+(?:\[[\w:-]*(?:\{[\w.=:-]*\})?\])?|\[[\w:-]*(?:\{[\w.=:-]*\})?\])(?:=(?i:trace|debug|info|warn|error|off|[0-5]))?$`)

// logging are the variables of the log. A proxy that cannot read its log level
// ends.
func (s *settings) logging(set func(name, value string)) {
	level := s.value(logLevelAnnotation, defaultLogLevel)
	if !isLogLevel(level) {
		s.warn("annotation %s: %.100q is not a list of levels such as %s, which is used", logLevelAnnotation, level, defaultLogLevel)
		level = defaultLogLevel
	}
	if s.choice(logHeadersAnnotation, "off", "off", "insecure") != "insecure" {
		level += logNoHeaders
	}
	set("LOG", level)
	set("LOG_FORMAT", s.choice("config.linkerd.io/proxy-log-format", "plain", "plain", "json"))
	set("ACCESS_LOG", s.choice("config.linkerd.io/access-log", "", "apache", "json"))
}

func isLogLevel(level string) bool {
	for part := range strings.SplitSeq(level, ",") {
		if !logDirective.MatchString(part) {
			return false
		}
	}
	return true
}
