// Command simd: the test application of ibc-go 10 on Cosmos SDK 0.53, with unordered transactions on, which it has not by itself.
// Only what a test chain needs: init, keys, genesis, start.
package main

import (
	"io"
	"os"
	"time"

	dbm "github.com/cosmos/cosmos-db"
	"github.com/spf13/cobra"

	"cosmossdk.io/log"

	"github.com/cosmos/cosmos-sdk/client"
	"github.com/cosmos/cosmos-sdk/client/config"
	"github.com/cosmos/cosmos-sdk/client/keys"
	addresscodec "github.com/cosmos/cosmos-sdk/codec/address"
	"github.com/cosmos/cosmos-sdk/runtime"
	"github.com/cosmos/cosmos-sdk/server"
	serverconfig "github.com/cosmos/cosmos-sdk/server/config"
	servertypes "github.com/cosmos/cosmos-sdk/server/types"
	svrcmd "github.com/cosmos/cosmos-sdk/server/cmd"
	simtestutil "github.com/cosmos/cosmos-sdk/testutil/sims"
	sdk "github.com/cosmos/cosmos-sdk/types"
	"github.com/cosmos/cosmos-sdk/x/auth/ante"
	authkeeper "github.com/cosmos/cosmos-sdk/x/auth/keeper"
	authtypes "github.com/cosmos/cosmos-sdk/x/auth/types"
	genutilcli "github.com/cosmos/cosmos-sdk/x/genutil/client/cli"
	govtypes "github.com/cosmos/cosmos-sdk/x/gov/types"

	cmtcfg "github.com/cometbft/cometbft/config"

	"github.com/cosmos/ibc-go/v10/testing/simapp"
)

func main() {
	if err := svrcmd.Execute(rootCmd(), "", home()); err != nil {
		os.Exit(1)
	}
}

func home() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		panic(err)
	}
	return dir + "/.simapp"
}

func rootCmd() *cobra.Command {
	app := simapp.NewSimApp(log.NewNopLogger(), dbm.NewMemDB(), nil, true, simtestutil.NewAppOptionsWithFlagHome(os.TempDir()))
	context := client.Context{}.
		WithCodec(app.AppCodec()).
		WithInterfaceRegistry(app.InterfaceRegistry()).
		WithLegacyAmino(app.LegacyAmino()).
		WithTxConfig(app.TxConfig()).
		WithInput(os.Stdin).
		WithAccountRetriever(authtypes.AccountRetriever{}).
		WithHomeDir(home()).
		WithViper("")
	root := &cobra.Command{
		Use:           "simd",
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.OutOrStdout())
			cmd.SetErr(cmd.ErrOrStderr())
			context, err := client.ReadPersistentCommandFlags(context.WithCmdContext(cmd.Context()), cmd.Flags())
			if err != nil {
				return err
			}
			if context, err = config.ReadFromClientConfig(context); err != nil {
				return err
			}
			if err := client.SetCmdClientContextHandler(context, cmd); err != nil {
				return err
			}
			settings := serverconfig.DefaultConfig()
			settings.MinGasPrices = "0stake"
			return server.InterceptConfigsPreRunHandler(cmd, serverconfig.DefaultConfigTemplate, settings, cmtcfg.DefaultConfig())
		},
	}
	root.AddCommand(
		genutilcli.InitCmd(app.BasicModuleManager, home()),
		genutilcli.Commands(app.TxConfig(), app.BasicModuleManager, home()),
		keys.Commands(),
	)
	none := func(log.Logger, dbm.DB, io.Writer, int64, bool, []string, servertypes.AppOptions, []string) (servertypes.ExportedApp, error) {
		return servertypes.ExportedApp{}, nil
	}
	server.AddCommands(root, home(), newApp, none, func(*cobra.Command) {})
	return root
}

// The application, its ante handler with a keeper of accounts that keeps the timeouts of unordered transactions.
func newApp(logger log.Logger, db dbm.DB, trace io.Writer, options servertypes.AppOptions) servertypes.Application {
	app := simapp.NewSimApp(logger, db, trace, false, options, server.DefaultBaseappOptions(options)...)
	accounts := authkeeper.NewAccountKeeper(
		app.AppCodec(), runtime.NewKVStoreService(app.GetKey(authtypes.StoreKey)), authtypes.ProtoBaseAccount,
		map[string][]string{authtypes.FeeCollectorName: nil}, addresscodec.NewBech32Codec(sdk.Bech32MainPrefix), sdk.Bech32MainPrefix,
		authtypes.NewModuleAddress(govtypes.ModuleName).String(), authkeeper.WithUnorderedTransactions(true),
	)
	handler, err := ante.NewAnteHandler(ante.HandlerOptions{
		AccountKeeper:   accounts,
		BankKeeper:      app.BankKeeper,
		SignModeHandler: app.TxConfig().SignModeHandler(),
		SigGasConsumer:  ante.DefaultSigVerificationGasConsumer,
		SigVerifyOptions: []ante.SigVerificationDecoratorOption{
			ante.WithUnorderedTxGasCost(ante.DefaultUnorderedTxGasCost),
			ante.WithMaxUnorderedTxTimeoutDuration(10 * time.Minute),
		},
	})
	if err != nil {
		panic(err)
	}
	app.SetAnteHandler(handler)
	if err := app.LoadLatestVersion(); err != nil {
		panic(err)
	}
	return app
}
