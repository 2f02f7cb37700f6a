// Signs transfers as the Cosmos SDK's own Go client does (client/tx.SignWithPrivKey, SIGN_MODE_DIRECT) and prints
// how many a second: main SECONDS (run measures it).
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/cosmos/cosmos-sdk/client/tx"
	"github.com/cosmos/cosmos-sdk/crypto/keys/secp256k1"
	sdk "github.com/cosmos/cosmos-sdk/types"
	moduletestutil "github.com/cosmos/cosmos-sdk/types/module/testutil"
	"github.com/cosmos/cosmos-sdk/types/tx/signing"
	authsigning "github.com/cosmos/cosmos-sdk/x/auth/signing"
	"github.com/cosmos/cosmos-sdk/x/bank"
	banktypes "github.com/cosmos/cosmos-sdk/x/bank/types"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	check(err)
	config := moduletestutil.MakeTestEncodingConfig(bank.AppModuleBasic{}).TxConfig
	key, to := secp256k1.GenPrivKey(), secp256k1.GenPrivKey()
	coins := sdk.NewCoins(sdk.NewInt64Coin("stake", 1))
	signed, begin := uint64(0), time.Now()
	for time.Since(begin).Seconds() < seconds {
		for range 100 {
			builder := config.NewTxBuilder()
			message := banktypes.NewMsgSend(sdk.AccAddress(key.PubKey().Address()), sdk.AccAddress(to.PubKey().Address()), coins)
			check(builder.SetMsgs(message))
			builder.SetGasLimit(100_000)
			builder.SetFeeAmount(sdk.NewCoins(sdk.NewInt64Coin("stake", 2_000)))
			// The key has to be there before the bytes are signed.
			check(builder.SetSignatures(signing.SignatureV2{
				PubKey:   key.PubKey(),
				Data:     &signing.SingleSignatureData{SignMode: signing.SignMode_SIGN_MODE_DIRECT},
				Sequence: signed,
			}))
			data := authsigning.SignerData{ChainID: "tide-1", AccountNumber: 12_345, Sequence: signed, PubKey: key.PubKey(), Address: sdk.AccAddress(key.PubKey().Address()).String()}
			signature, err := tx.SignWithPrivKey(context.Background(), signing.SignMode_SIGN_MODE_DIRECT, data, builder, key, config, signed)
			check(err)
			check(builder.SetSignatures(signature))
			_, err = config.TxEncoder()(builder.GetTx())
			check(err)
			signed++
		}
	}
	fmt.Printf("%.0f\n", float64(signed)/time.Since(begin).Seconds())
}
