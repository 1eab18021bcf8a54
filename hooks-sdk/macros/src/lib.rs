//! The attribute `#[hooks_sdk_testing::test]`, which makes two tests of one body: native, and of the built module.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// See `hooks_sdk_testing::test`.
#[proc_macro_attribute]
pub fn test(hook: TokenStream, item: TokenStream) -> TokenStream {
    match parts(hook, item) {
        Ok(parts) => parts.expand(),
        Err((span, message)) => refuse(span, message),
    }
}

struct Parts {
    hook: TokenStream,
    /// Documentation and other attributes of the function.
    attributes: TokenStream,
    name: Ident,
    /// The function from `fn` on.
    body: TokenStream,
}

type Refusal = (Span, &'static str);

fn parts(hook: TokenStream, item: TokenStream) -> Result<Parts, Refusal> {
    if hook.is_empty() {
        let place = Span::call_site();
        return Err((place, "name the hook: #[hooks_sdk_testing::test(MyHook)]"));
    }
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let at = tokens
        .iter()
        .position(|token| is_word(token, "fn"))
        .ok_or((Span::call_site(), "a test is a function"))?;
    if let Some(odd) = tokens[..at].iter().find(|token| is_word(token, "async")) {
        return Err((odd.span(), "a test of a hook is not async"));
    }
    let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else {
        return Err((tokens[at].span(), "a test has a name"));
    };
    match tokens.get(at + 2) {
        Some(TokenTree::Group(arguments))
            if arguments.delimiter() == Delimiter::Parenthesis
                && !arguments.stream().is_empty() => {}
        _ => {
            return Err((
                name.span(),
                "a test of a hook takes it: fn name(hook: hooks_sdk_testing::Hook)",
            ));
        }
    }
    Ok(Parts {
        hook,
        attributes: tokens[..at].iter().cloned().collect(),
        name: name.clone(),
        body: tokens[at..].iter().cloned().collect(),
    })
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

impl Parts {
    /// A module of the function's name, with the function in it and a test for each way to run it.
    fn expand(self) -> TokenStream {
        let name = self.name.to_string();
        let mut inside = parsed("#[allow(unused_imports)] use super::*;");
        inside.extend(self.body);
        inside.extend(parsed(&format!(
            "#[test] fn natively() {{ {name}(::hooks_sdk_testing::native!({hook})) }}
             #[test] fn under_wasmtime() {{ {name}(::hooks_sdk_testing::module!()) }}",
            hook = self.hook
        )));
        let mut all = self.attributes;
        all.extend(parsed("#[cfg(test)] mod"));
        all.extend([
            TokenTree::Ident(self.name),
            TokenTree::Group(Group::new(Delimiter::Brace, inside)),
        ]);
        all
    }
}

/// Parses generated code.
fn parsed(text: &str) -> TokenStream {
    text.parse().unwrap_or_else(|_| {
        refuse(
            Span::call_site(),
            "the hook's type cannot be written in a test",
        )
    })
}

fn refuse(span: Span, message: &str) -> TokenStream {
    let error: TokenStream = format!("::core::compile_error!({message:?});")
        .parse()
        .unwrap_or_default();
    error
        .into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}
