package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// setting is the value of a flag that is given once. parse rejects invalid values, so that a verb
// starts with valid ones only.
type setting[T any] struct {
	to    *T
	kind  string // type of the value in the help
	parse func(text string) (T, error)
	print func(value T) string // returns "" for a default that the help does not show
	hint
}

// hint describes a flag's values for help and completions.
type hint struct {
	limits string   // "1 to 64"; "" for none
	words  []string // the only possible values; nil if other values are possible
	files  bool     // the value is the path of a file or folder

	some func() []string // suggestions among other values; nil for none
}

// hinted is a flag's value that has a hint.
type hinted interface {
	pflag.Value
	hints() hint
}

func (h hint) hints() hint { return h }

func (s *setting[T]) Set(text string) error {
	value, err := s.parse(text)
	if err == nil {
		*s.to = value
	}
	return err
}

func (s *setting[T]) String() string { return s.print(*s.to) }
func (s *setting[T]) Type() string   { return s.kind }

// settings is the value of a flag that is a list, or that may be repeated. Given values replace the
// default.
type settings[T any] struct {
	to     *[]T
	kind   string
	commas bool // values are separated by commas; otherwise the flag is repeated
	given  bool
	parse  func(text string) (T, error)
	print  func(value T) string
	hint
}

func (s *settings[T]) Set(text string) error {
	words := []string{text}
	if s.commas {
		words = strings.Split(text, ",")
	}
	var values []T
	for _, word := range words {
		value, err := s.parse(strings.TrimSpace(word))
		if err != nil && len(words) > 1 {
			return fmt.Errorf("%s: %w", shown(word), err)
		}
		if err != nil {
			return err
		}
		values = append(values, value)
	}
	if s.given {
		values = append(*s.to, values...)
	}
	*s.to, s.given = values, true
	return nil
}

func (s *settings[T]) String() string {
	var texts []string
	for _, value := range *s.to {
		texts = append(texts, s.print(value))
	}
	return strings.Join(texts, ",")
}

func (s *settings[T]) Type() string { return s.kind }
func (s *settings[T]) list() bool   { return s.commas }

// number is a flag whose value is a number from low to high.
func number(to *int, value, low, high int) *setting[int] {
	*to = value
	return &setting[int]{to: to, kind: "int", parse: numberIn(low, high), print: printNumber, hint: hint{limits: fmt.Sprintf("%d to %d", low, high)}}
}

// numbers is a flag whose value is a list of numbers from low to high.
func numbers(to *[]int, value []int, low, high int) *settings[int] {
	*to = value
	return &settings[int]{to: to, kind: "ints", commas: true, parse: numberIn(low, high), print: strconv.Itoa, hint: hint{limits: fmt.Sprintf("each %d to %d", low, high)}}
}

func numberIn(low, high int) func(text string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("want a number from %d to %d", low, high)
		}
		return n, nil
	}
}

func printNumber(n int) string {
	if n == 0 {
		return "" // the help describes the default in words
	}
	return strconv.Itoa(n)
}

// seed is a flag whose value is the seed of a random number generator.
func seed(to *uint64, value uint64) *setting[uint64] {
	*to = value
	parse := func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("want a number from 0 to 2^64-1")
		}
		return n, nil
	}
	return &setting[uint64]{to: to, kind: "uint", parse: parse, print: func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}}
}

// period is a flag whose value is a time from low to high.
func period(to *time.Duration, value, low, high time.Duration) *setting[time.Duration] {
	*to = value
	parse := func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < low || d > high {
			return 0, fmt.Errorf("want a time with its unit, such as 500ms, from %s to %s", printPeriod(low), printPeriod(high))
		}
		return d, nil
	}
	print := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return printPeriod(d)
	}
	return &setting[time.Duration]{to: to, kind: "duration", parse: parse, print: print, hint: hint{limits: printPeriod(low) + " to " + printPeriod(high)}}
}

// printPeriod writes a time without the units that are 0: 1h, not 1h0m0s.
func printPeriod(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// choice is a flag whose value is one of words.
func choice[T ~string](to *T, value T, words ...string) *setting[T] {
	*to = value
	parse := func(text string) (T, error) {
		if !slices.Contains(words, text) {
			return "", fmt.Errorf("want %s", either(words))
		}
		return T(text), nil
	}
	return &setting[T]{to: to, kind: "string", parse: parse, print: func(value T) string { return string(value) }, hint: hint{words: words}}
}

// choices is a flag whose value is a list of words. nil means the default.
func choices(to *[]string, words []string) *settings[string] {
	parse := func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", fmt.Errorf("want some of %s", strings.Join(words, ","))
		}
		return text, nil
	}
	return &settings[string]{to: to, kind: "strings", commas: true, parse: parse, print: verbatim, hint: hint{words: words}}
}

// either joins words for a sentence: a, b or c.
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func verbatim(text string) string { return text }

var errEmpty = errors.New("empty value (for the default, leave the flag out)")

// text is a flag whose value is a nonempty text that passes all checks.
func text(to *string, value string, checks ...func(text string) error) *setting[string] {
	*to = value
	return &setting[string]{to: to, kind: "string", parse: checked(checks), print: verbatim}
}

// texts is text for a flag that may be repeated.
func texts(to *[]string, checks ...func(text string) error) *settings[string] {
	return &settings[string]{to: to, kind: "stringArray", parse: checked(checks), print: verbatim}
}

func checked(checks []func(text string) error) func(text string) (string, error) {
	return func(text string) (string, error) {
		if text == "" {
			return "", errEmpty
		}
		for _, check := range checks {
			if err := check(text); err != nil {
				return "", err
			}
		}
		return text, nil
	}
}

// shown returns user input for a message. It adds quotes if the input would be unclear without them.
func shown(text string) string {
	if quoted := strconv.Quote(text); text == "" || strings.ContainsAny(text, " '") || quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// input is a flag whose value is the path of a file that is read.
func input(to *string, checks ...func(text string) error) *setting[string] {
	s := text(to, "", append([]func(string) error{readable}, checks...)...)
	s.files = true
	return s
}

// output is a flag whose value is the path of a file that is written. It can be - if that is the
// default.
func output(to *string, value string) *setting[string] {
	s := text(to, value, func(path string) error {
		if path == "-" && value == "-" {
			return nil
		}
		return writable(path)
	})
	s.files = true
	return s
}

// folder is a flag whose value is the path of a folder, which is created if necessary.
func folder(to *string, value string) *setting[string] {
	s := text(to, value, func(path string) error {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			return errors.New("want a folder, found a file")
		}
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) && !errors.Is(err, fs.ErrNotExist) {
			return failed.Err
		}
		return nil
	})
	s.files = true
	return s
}

// readable rejects a path that is not a file, or that this process may not read.
func readable(path string) error {
	if err := unix.Access(path, unix.R_OK); err != nil {
		return err
	}
	f, err := userfile.Open(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// writable rejects a path if a folder has it, if its parent folder does not exist, or if it is a pipe
// without a reader.
func writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("want a file, found a folder")
	case err == nil && info.Mode()&fs.ModeNamedPipe != 0:
		err = userfile.Check(path)
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			return failed.Err
		}
		return err
	}
	if dir := filepath.Dir(path); !isFolder(dir) {
		return fmt.Errorf("no such folder: %s", dir)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// existing rejects a path that is not a folder.
func existing(path string) error {
	if !isFolder(path) {
		return errors.New("no such folder")
	}
	return nil
}

// listenAt is a flag whose value is a TCP address to listen at, for metrics.Serve.
func listenAt(to *string) *setting[string] {
	return text(to, "", func(text string) error {
		host, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil || strings.ContainsAny(host, " /") {
			return errors.New("want a TCP address such as :9464 or 10.0.0.1:9464")
		}
		return nil
	})
}

// address is a flag whose value is an IP address.
func address(to *netip.Addr) *setting[netip.Addr] {
	parse := func(text string) (netip.Addr, error) {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return ip, errors.New("want an IP address such as 10.0.0.1 or fd00::1")
		}
		return ip, nil
	}
	return &setting[netip.Addr]{to: to, kind: "string", parse: parse, print: func(ip netip.Addr) string {
		if !ip.IsValid() {
			return ""
		}
		return ip.String()
	}}
}

// most rejects a text longer than n bytes.
func most(n int) func(text string) error {
	return func(text string) error {
		if len(text) > n {
			return fmt.Errorf("want at most %d bytes, found %d", n, len(text))
		}
		return nil
	}
}

// maxSocket is the maximum length of a Unix socket's path in bytes.
const maxSocket = len(unix.RawSockaddrUnix{}.Path) - 1

// bare removes the package name from the front of an error.
func bare(err error, prefix string) error {
	if err == nil {
		return nil
	}
	if text, cut := strings.CutPrefix(err.Error(), prefix); cut {
		return errors.New(text)
	}
	return err
}

// finishFlags appends the limits of its values to the help of each flag of cmd and its verbs, and
// registers completions.
func finishFlags(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		value, ok := f.Value.(hinted)
		if !ok {
			return
		}
		if value.hints().limits != "" {
			f.Usage += fmt.Sprintf(" (%s)", value.hints().limits)
		}
		cmd.RegisterFlagCompletionFunc(f.Name, complete(value)) // fails only if the flag does not exist
	})
	for _, verb := range cmd.Commands() {
		finishFlags(verb)
	}
}

// complete returns the completions of a flag's value: its possible values, its suggestions, or
// files. In a list it completes the last word.
func complete(value hinted) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		h, before := value.hints(), ""
		if list, ok := value.(interface{ list() bool }); ok && list.list() {
			before = typed[:strings.LastIndex(typed, ",")+1]
		}
		offered := h.words
		if h.some != nil {
			offered = append(slices.Clone(offered), h.some()...)
		}
		var found []cobra.Completion
		for _, word := range offered {
			if strings.HasPrefix(before+word, typed) {
				found = append(found, before+word)
			}
		}
		if h.files {
			return found, cobra.ShellCompDirectiveDefault
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// helpVerbs makes the verbs help and completion reject unknown names.
func helpVerbs(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, verb := range root.Commands() {
		switch verb.Name() {
		case "help":
			verb.Short, verb.Use = "Print the help of a verb", "help [VERB]"
			verb.Run, verb.RunE = nil, func(_ *cobra.Command, args []string) error { return showHelp(root, args) }
		case "completion":
			verb.Args, verb.RunE = cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usageError{fmt.Errorf("completion: unknown shell %s: want %s", shown(args[0]), either(verbNames(cmd)))}
				}
				return cmd.Help()
			}
		}
	}
}

// showHelp prints the help of the verb in args.
func showHelp(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if cmd != nil && cmd != root && len(rest) > 0 {
		return usageError{fmt.Errorf("help: want one verb, found %s after %s", shown(rest[0]), cmd.Name())}
	}
	if cmd == nil || err != nil || len(rest) > 0 {
		return unknownVerb(root, args[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return cmd.Help()
}
