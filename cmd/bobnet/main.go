// Command bobnet demonstrates, measures and operates Bobnet: messages between
// programs on one Ethernet segment without TCP/IP.
//
// Exit codes:
//   - 0: success.
//   - 1: failure. Also after a signal, if a file could not be written.
//   - 2: wrong usage: a flag, value or interface, or an environment variable, is invalid or does
//     not exist. Nothing was started.
//   - 128 plus the signal: interrupted.
//
// The verbs lab and run return the worst exit code of their ranks. They return 126 if the command
// cannot be executed and 127 if it is not found.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/launch"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// verbs lists the subcommands in the order of the help.
var verbs = []func() *cobra.Command{
	newDemoCmd,
	newLabCmd,
	newRunCmd,
	newInfoCmd,
	newDoctorCmd,
	newPerfCmd,
	newKeyCmd,
	newPingCmd,
	newMapCmd,
	newPaperCmd,
	newDaemonCmd,
	newAgentCmd,
	newSwitchCmd,
	newCardCmd,
	newTunCmd,
	newTopCmd,
	newRPCGenCmd,
	newManCmd,
	newVersionCmd,
	newNodeCmd,
	newBindCmd,
}

// pipeGrace is the time that the reader of a pipe gets to read pending output after a signal has
// interrupted the command.
const pipeGrace = 2 * time.Second

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		sig := <-signals
		signal.Stop(signals) // the second one kills this process
		cancel(interrupted(sig.(syscall.Signal)))
		time.AfterFunc(pipeGrace, userfile.GiveUp)
	}()
	root := newRootCmd()
	root.SetOut(stdout)
	err := ended(ctx, usedEnvironment(root.ExecuteContext(ctx)), stdout.Err())
	if _, bare := err.(interrupted); err != nil && !bare { //nolint:errorlint // a verb's own message that wraps it is printed
		fmt.Fprintln(os.Stderr, "bobnet:", err)
	}
	os.Exit(exitCode(err))
}

// ended returns the error of a verb that has returned err. printing is the first error of
// writing to the standard output. If a signal has interrupted the verb, it returns the signal
// instead of the verb's error, except for a file that could not be written.
func ended(ctx context.Context, err, printing error) error {
	var (
		sig  interrupted
		lost *userfile.WriteError
	)
	if ctx.Err() == nil {
		return cmp.Or(err, printing)
	}
	if errors.As(errors.Join(err, printing), &lost) {
		return lost
	}
	if err != nil && !errors.As(err, &sig) && errors.As(context.Cause(ctx), &sig) {
		return sig
	}
	return err
}

// newRootCmd returns the root command with all verbs.
func newRootCmd() *cobra.Command {
	var verbose int
	root := &cobra.Command{
		Use:           "bobnet",
		Short:         "Exchange messages over one Ethernet segment without TCP/IP",
		Version:       version(),
		SilenceErrors: true, // main prints them
		SilenceUsage:  true,

		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if verbose < 0 {
				return usageError{fmt.Errorf("--verbose %d: want 0 or more", verbose)}
			}
			level := slog.LevelWarn - slog.Level(4*min(verbose, 2))
			slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
			return cmp.Or(checkInterface(cmd), checkEnvironment(cmd))
		},
	}
	root.PersistentFlags().CountVarP(&verbose, "verbose", "v", "log events; twice: in detail")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = true
	cobra.EnableCommandSorting = false
	for _, verb := range verbs {
		root.AddCommand(verb())
	}
	helpVerbs(root)
	finishFlags(root)
	return root
}

// version returns the version of this program, with the commit if it is not a release.
func version() string {
	b := thisBuild()
	return fmt.Sprintf("%s (%s)", b.name(), b.Go)
}

// knownVerb rejects arguments that are not the name of a verb.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownVerb(cmd, args[0])
}

// usageError is an error in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage turns the errors of check into usage errors, and appends the usage line.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w\nusage: %s\nmore:  %s --help", err, cmd.UseLine(), cmd.CommandPath())}
		}
		return nil
	}
}

// wants rejects a call without arguments. The error names the missing argument.
func wants(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s: missing %s", cmd.Name(), what)
		}
		return nil
	}
}

// interrupted is the cause of a context that a signal has cancelled.
type interrupted syscall.Signal

func (s interrupted) Error() string { return syscall.Signal(s).String() }

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	var (
		wrong usageError
		exit  *lab.ExitError
		ran   *launch.ExitError
		hydra *launch.HydraError
		start *exec.Error
		sig   interrupted
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return 2
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &ran):
		return ran.Code
	case errors.As(err, &hydra):
		return hydra.Code
	case errors.As(err, &sig):
		return 128 + int(sig)
	case errors.As(err, &start) && errors.Is(err, os.ErrPermission):
		return 126
	case errors.As(err, &start):
		return 127
	}
	return 1
}

// stdout is the standard output of verbs and of the ranks that they start. The first write error
// becomes the command's error if it has no other.
var stdout = userfile.Keep(os.Stdout)
