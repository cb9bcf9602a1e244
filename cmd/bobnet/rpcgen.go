package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bobnet-go/bobnet/internal/rpcgen"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
)

// rpcgenOptions are the flags of the verb.
type rpcgenOptions struct {
	out, pkg string
	defines  []string
	dirs     []string
}

func newRPCGenCmd() *cobra.Command {
	var opt rpcgenOptions
	cmd := &cobra.Command{
		Use:   "rpcgen [flags] FILE.x",
		Short: "Make Go of a file in RPC language: types, client and server",
		Long: `Make Go of a specification in RPC language (RFC 4506 section 6, RFC 5531 section
12): its types, which encode and decode themselves, and of each version of a program
a client and an interface for servers. The code uses the packages vmmc/xdr and
vmmc/vrpc. As a line in a Go file:

	//go:generate go run github.com/bobnet-go/bobnet/cmd/bobnet rpcgen files.x

"go doc ./internal/rpcgen" has the language, and the rule for names.`,
		Args: usage(oneSpecification),
		RunE: func(cmd *cobra.Command, args []string) error { return opt.run(cmd.OutOrStdout(), args[0]) },
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{"x"}, cobra.ShellCompDirectiveFilterFileExt
	}
	flags := cmd.Flags()
	flags.VarP(output(&opt.out, ""), "output", "o", "the Go file to write; - is the standard output (default FILE_xdr.go beside FILE.x)")
	flags.VarP(text(&opt.pkg, "", identifier), "package", "p", "the name of its package (default $GOPACKAGE, else the name of its folder)")
	flags.VarP(texts(&opt.defines, macro), "define", "D", "NAME or NAME=TEXT: a macro, as by #define")
	flags.VarP(texts(&opt.dirs, existing), "include", "I", "a folder of files to #include, besides that of the file that does so")
	return cmd
}

func identifier(text string) error {
	if !token.IsIdentifier(text) {
		return errors.New("want a name that a Go package can have")
	}
	return nil
}

func macro(text string) error {
	if name, _, _ := strings.Cut(text, "="); !token.IsIdentifier(name) {
		return errors.New("want NAME or NAME=TEXT")
	}
	return nil
}

func oneSpecification(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("rpcgen wants one file in RPC language, found %d", len(args))
	}
	return nil
}

func (o *rpcgenOptions) run(stdout io.Writer, name string) error {
	src, err := userfile.Read(name, maxText)
	if err != nil {
		return usageError{fmt.Errorf("rpcgen: %w", err)}
	}
	out := o.out
	if out == "" {
		out = strings.TrimSuffix(name, ".x") + "_xdr.go"
	}
	pkg, err := o.packageName(out)
	if err != nil {
		return err
	}
	opt := rpcgen.Options{Package: pkg, Defines: map[string]string{}, Include: o.include}
	for _, d := range o.defines {
		macro, text, given := strings.Cut(d, "=")
		if !given {
			text = "1"
		}
		opt.Defines[macro] = text
	}
	text, err := rpcgen.Generate(name, src, opt)
	if err != nil {
		return err
	}
	if out == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return replaceGenerated(out, text)
}

// packageName returns the name of the package of the file to be written.
func (o *rpcgenOptions) packageName(out string) (string, error) {
	if o.pkg != "" {
		return o.pkg, nil
	}
	if pkg := os.Getenv("GOPACKAGE"); pkg != "" {
		return pkg, nil
	}
	dir, err := filepath.Abs(filepath.Dir(out))
	if err != nil {
		return "", err
	}
	if base := filepath.Base(dir); token.IsIdentifier(base) {
		return base, nil
	}
	return "", usageError{fmt.Errorf("the folder %s has no name that a package could have: give one with --package", dir)}
}

// include finds a file that another one includes.
func (o *rpcgenOptions) include(from, name string) (path string, text []byte, err error) {
	for _, dir := range append([]string{filepath.Dir(from)}, o.dirs...) {
		path = filepath.Join(dir, name)
		if filepath.IsAbs(name) {
			path = name
		}
		if text, err = userfile.Read(path, maxText); !errors.Is(err, fs.ErrNotExist) {
			return path, text, err
		}
	}
	return "", nil, fmt.Errorf("no such file there or in %d folders given with -I", len(o.dirs))
}

// replaceGenerated writes the file, unless there is one that somebody has written by hand.
// One that is the same already is left alone.
func replaceGenerated(name string, text []byte) error {
	old, err := userfile.Read(name, maxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, userfile.ErrNotRegular): // a device, or a pipe with a reader
		return userfile.Write(name, text, 0o644)
	case err != nil:
		return err
	case bytes.Equal(old, text):
		return nil
	case len(old) > 0 && !bytes.HasPrefix(old, []byte(rpcgen.Marker)):
		return fmt.Errorf("%s was not made by bobnet rpcgen and is left as it is: remove it, or give another name with -o", name)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".rpcgen-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}
